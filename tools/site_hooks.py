"""MkDocs hooks: pages may link to files beside docs/ (deploy/, CHANGELOG.md), which become part of the site.

In the repository such a link reads `../../deploy/alerts.yaml` from docs/how-to/; the site has docs/ as its
root, so the link needs one level less there.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
BESIDE = ("CHANGELOG.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md", "LICENSE", "deploy/*")
LINK = re.compile(r"(\]\()((?:\.\./)+)([^)\s]+\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for pattern in BESIDE:
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    if page.file.generated_by:
        return markdown.replace("](docs/", "](")
    depth = page.file.src_uri.count("/") + 1  # so many levels lead out of docs/

    def inside(link: re.Match[str]) -> str:
        up = link[2].count("../")
        return link[1] + "../" * (up - 1) + link[3] if up == depth else link[0]

    return LINK.sub(inside, markdown)

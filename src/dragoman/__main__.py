"""`python -m dragoman` is the program `dragoman`."""

from dragoman.cli import main

main(prog_name="dragoman")

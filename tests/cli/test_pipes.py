"""The program as a process: pipes, chunks as they arrive, readers that leave, exit codes."""

import os
import signal
import subprocess
import sys

PROGRAM = [sys.executable, "-m", "dragoman"]
STREAM = [*PROGRAM, "translate", "stream", "--from", "anthropic", "--to", "openai-chat"]
START = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","type":"message",'
    b'"role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,'
    b'"usage":{"input_tokens":3,"output_tokens":1}}}\n\n'
    b'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
    b'"content_block":{"type":"text","text":""}}\n\n'
)
HELLO = (
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
    b'"delta":{"type":"text_delta","text":"hello"}}\n\n'
)
END = (
    b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn",'
    b'"stop_sequence":null},"usage":{"output_tokens":2}}\n\n'
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
)
BROKEN = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"too busy"}}\n\n'


def start(command: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    )


def run(command: list[str], stdin: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, input=stdin, capture_output=True, timeout=120, check=False)


def read_until(process: subprocess.Popen[bytes], wanted: bytes) -> bytes:
    assert process.stdout
    seen = b""
    while wanted not in seen:
        chunk = os.read(process.stdout.fileno(), 65536)
        assert chunk, f"the stream ended before {wanted!r}: {seen!r}"
        seen += chunk
    return seen


def test_a_stream_is_translated_as_it_arrives():
    process = start(STREAM)
    assert process.stdin
    process.stdin.write(START + HELLO)
    read_until(process, b"hello")  # stdin is still open
    process.stdin.write(END)
    process.stdin.close()
    read_until(process, b"[DONE]")
    assert process.wait(60) == 0


def test_a_reader_that_leaves_is_no_traceback():
    process = start([*STREAM, "--strict"])
    assert process.stdin
    assert process.stdout
    assert process.stderr
    process.stdin.write(START + HELLO)
    read_until(process, b"hello")
    process.stdout.close()
    process.stdin.write(HELLO * 50)
    process.stdin.close()
    assert process.stderr.read() == b""
    assert process.wait(60) == 1


FAILURES = {
    "cut": (START + HELLO, b"truncated"),
    "error event": (START + HELLO + BROKEN, b"too busy"),
    "not a stream": (b"event: x\ndata: {oops\n\n", b"malformed"),
    "invalid UTF-8": (START + HELLO.replace(b"hello", b"\xff\xfe"), b"malformed"),
    "empty": (b"", b"truncated"),
}


def test_an_upstream_that_fails_is_exit_code_1():
    for name, (stream, message) in FAILURES.items():
        for command in (STREAM, [*STREAM[:-1], "anthropic"]):
            result = run(command, stream)
            assert result.returncode == 1, (name, command, result)
            assert result.stderr.count(b"\n") == 1, (name, command, result.stderr)
            assert message in result.stderr, (name, command, result.stderr)


def test_between_equal_protocols_bytes_pass_untouched():
    stream = (START + HELLO + END).replace(b'"type":"text_delta"', b'"new" :1.10, "type":"text_delta"')
    result = run([*STREAM[:-1], "anthropic"], stream)
    assert (result.returncode, result.stdout, result.stderr) == (0, stream, b"")


def test_invalid_utf_8_in_a_body_names_the_protocol():
    result = run([*PROGRAM, "translate", "request", "--from", "gemini", "--to", "anthropic"], b'{"a":"\xff"}')
    assert (result.returncode, result.stdout) == (1, b"")
    assert result.stderr.startswith(b"dragoman: gemini: body: ")
    assert result.stderr.count(b"\n") == 1


def test_a_narrow_encoding_does_not_end_the_demo():
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    command = [*PROGRAM, "demo", "--from", "anthropic", "--to", "anthropic"]
    result = subprocess.run(command, env=environment, capture_output=True, timeout=120, check=False)
    assert (result.returncode, result.stderr) == (0, b"")


def test_streams_that_are_closed_are_empty():
    translate = "translate request --from gemini --to anthropic"
    for line, code, message in (
        (f"{translate} <&-", 1, b"dragoman: gemini: body: "),
        ("demo --from anthropic --to anthropic >&-", 0, b""),
        (f"{translate} </dev/null 2>&-", 1, b""),
    ):
        command = ["sh", "-c", f'"{sys.executable}" -m dragoman {line}']
        result = subprocess.run(command, capture_output=True, timeout=120, check=False)
        assert (result.returncode, result.stdout) == (code, b""), line
        assert result.stderr.startswith(message) if message else result.stderr == b"", (line, result.stderr)


def test_an_interrupt_is_quiet():
    process = start(STREAM)
    assert process.stdin
    assert process.stderr
    process.stdin.write(START + HELLO)
    read_until(process, b"hello")
    process.send_signal(signal.SIGINT)
    assert process.stderr.read().strip() == b""
    assert process.wait(60) == 130

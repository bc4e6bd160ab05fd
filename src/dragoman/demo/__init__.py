"""The embedded model: scripted, deterministic, and real on the wire of every protocol."""

from dragoman.demo.app import DemoApp
from dragoman.demo.embedded import DemoTransport
from dragoman.demo.faults import Fault, fault_of
from dragoman.demo.script import reply

__all__ = ["DemoApp", "DemoTransport", "Fault", "fault_of", "reply"]

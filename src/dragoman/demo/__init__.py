"""The embedded model: scripted, deterministic, and real on the wire of every protocol."""

from dragoman.demo.faults import Fault, fault_of
from dragoman.demo.script import reply
from dragoman.demo.transports import DemoApp, DemoTransport

__all__ = ["DemoApp", "DemoTransport", "Fault", "fault_of", "reply"]

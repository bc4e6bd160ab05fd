"""The Gemini API as a server offers it: what a gateway needs of the protocol, and no codec."""

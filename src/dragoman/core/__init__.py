"""Values and mechanisms that every part of dragoman shares; nothing here knows a protocol."""

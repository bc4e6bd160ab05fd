"""dragoman: carries tool calls between LLM protocols."""

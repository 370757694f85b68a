"""The Simple Controller Language: text -> Script -> Program (tables) -> ScriptController."""

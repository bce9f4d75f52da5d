"""The programs that people run: replay, the engine on live logs, the control room's studio, the demo."""

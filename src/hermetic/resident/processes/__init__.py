"""Jobs: processes on pipes and terminals, their output logs, trees and limits, and who waits for input."""

"""Jobs: processes on pipes and terminals, their output logs, trees and limits, and detection of
input waits.
"""

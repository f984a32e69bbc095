"""Who may allow what: the user's rules, answers and their exact scope, the queue of open questions, what was decided.

What a text would do is the policy's; what runs is the session's. Neither is done here.
"""

"""Drop-ins: the functions of other libraries, with their arguments, over vsa's operators.

Each takes strict=True, which refuses what the original refuses; without it vsa's own, wider limits
hold. Either way a wrong argument is a ValueError that names it, whatever the original raises.
"""

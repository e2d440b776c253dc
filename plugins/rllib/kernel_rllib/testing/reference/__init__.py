"""Every return and loss once more, as plainly as its paper has it: loops over rows, float64, equation numbers.

Nothing here is quick, and nothing that trains uses it. Losses take what a network put out and give numbers;
`numerical_gradients` differentiates them.
"""

"""What the calculators of the problems return."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

PAIR_TOOLS = {"add": ("+", "Add two numbers."), "subtract": ("-", "Subtract two numbers."), "multiply": ("*", "Multiply two numbers.")}
"""Sign and description of the tools that take two numbers, by name."""

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def run_tool(name: str, arguments: Mapping[str, Any]) -> str:
    """What a calculator tool of these problems returns: an expression worked out, or two numbers put together.

    Raises:
        ValueError: The arguments are no arithmetic.
    """
    values = list(arguments.values())
    expression = f"{values[0]} {PAIR_TOOLS[name][0]} {values[1]}" if name in PAIR_TOOLS and len(values) == 2 else str(*values)
    try:
        return work_out(expression)
    except (SyntaxError, ArithmeticError, RecursionError, MemoryError) as e:
        raise ValueError(f"cannot work out {expression!r}: {e}") from e


def work_out(expression: str) -> str:
    """The result of an expression of numbers with + - * /.

    Raises:
        SyntaxError, ValueError: It is no such expression.
        ArithmeticError: It has no result.
    """
    value = _evaluate(ast.parse(expression, mode="eval").body)
    return str(int(value)) if value == int(value) else str(value)


def _evaluate(node: ast.expr) -> int | float:
    match node:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            result: int | float = _OPERATORS[type(sign)](_evaluate(left), _evaluate(right))
            return result
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand)
        case _:
            raise ValueError(f"cannot work out {ast.unparse(node)!r}: numbers with + - * / only")

"""Who launched what: the operators around a launch, from the outermost to the innermost."""

import pandas as pd


def launching(operators: pd.DataFrame, launches: pd.DataFrame) -> dict[int, str]:
    """For each outermost operator the inner ones that launched GPU work, two of them named."""
    inner: dict[int, list[str]] = {}
    for label in launches["operator"].unique():
        chain = operator_chain(operators, int(label))
        if len(chain) > 1:
            name = str(operators.at[chain[-1], "name"]).removeprefix("aten::")
            names = inner.setdefault(chain[0], [])
            if name not in names:
                names.append(name)
    return {
        root: ", ".join(names[:2]) + (" ..." if len(names) > 2 else "")
        for root, names in inner.items()
    }


def operator_chain(operators: pd.DataFrame, label: int) -> list[int]:
    """Row labels of the operators around ``label``, outermost first, itself last."""
    chain: list[int] = []
    while label in operators.index and label not in chain:
        chain.append(label)
        label = int(operators.at[label, "parent"])
    return chain[::-1]


def operator_path(operators: pd.DataFrame, label: int) -> str:
    """The operators around a launch, outermost first: ``aten::masked_fill > aten::copy_``."""
    return " > ".join(
        str(operators.at[row, "name"]) for row in operator_chain(operators, int(label))
    )

"""How an exported page looks: formulas, the page's structure, its templates and its style."""

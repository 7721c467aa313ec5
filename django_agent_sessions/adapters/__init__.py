"""One module or package per agent framework: the only places that import its SDK.

Each needs the extra of this package that installs its SDK, and imports no other adapter.
"""

"""Parts of addresses that the API and the pages share."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Path

PostId = Annotated[UUID, Path(description="The post's id.", examples=["3f0c7c52-5d0e-5c3a-9a53-0c7f7c1f2b11"])]
TrendId = Annotated[UUID, Path(description="The trend's id.", examples=["6f9619ff-8b86-4d01-b42d-00cf4fc964ff"])]

"""What can be called."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from foldline.api.answers import Model, ModelList
from foldline.api.bodies import model_body
from foldline.api.openapi import describe
from foldline.api.views.base import ApiView
from foldline.catalog.selectors import live_model, live_models


class ModelsView(ApiView):
    @describe("List the models that can be called", {200: ModelList})
    def get(self, _request: Request) -> Response:
        return Response({"models": [model_body(model) for model in live_models()]})


class ModelView(ApiView):
    @describe("Show a model with its schemas and limits", {200: Model}, errors=(404, 410))
    def get(self, _request: Request, model: str) -> Response:
        return Response(model_body(live_model(model)))

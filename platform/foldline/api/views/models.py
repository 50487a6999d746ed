"""What can be called."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from foldline.api.answers import Model, ModelList
from foldline.api.bodies import model_body
from foldline.api.openapi import describe
from foldline.api.scaling import scaling_of
from foldline.api.views.base import ApiView
from foldline.catalog.selectors import live_model, live_models


class ModelsView(ApiView):
    @describe("List the models that can be called", {200: ModelList})
    def get(self, _request: Request) -> Response:
        models = live_models()
        scaling = scaling_of(models)
        bodies = [model_body(model, scaling=scaling[model.revision_id]) for model in models]
        return Response({"models": bodies})


class ModelView(ApiView):
    @describe("Show a model with its schemas and limits", {200: Model}, errors=(404, 410))
    def get(self, _request: Request, model: str) -> Response:
        found = live_model(model)
        return Response(model_body(found, scaling=scaling_of([found])[found.revision_id]))

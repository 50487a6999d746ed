"""What can be called."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from foldline.api.answers import Model, ModelList
from foldline.api.bodies import model_body
from foldline.api.elsewhere import name_alternatives
from foldline.api.openapi import describe
from foldline.api.scaling import scaling_of
from foldline.api.views.base import ApiView, caller
from foldline.catalog.selectors import live_model, live_models
from foldline.errors import FoldlineError


class ModelsView(ApiView):
    @describe("List the models that can be called", {200: ModelList})
    def get(self, _request: Request) -> Response:
        models = live_models()
        scaling = scaling_of(models)
        bodies = [model_body(model, scaling=scaling[model.revision_id]) for model in models]
        return Response({"models": bodies})


class ModelView(ApiView):
    @describe("Show a model with its schemas and limits", {200: Model}, errors=(404, 410))
    def get(self, request: Request, model: str) -> Response:
        try:
            found = live_model(model)
        except FoldlineError as error:
            name_alternatives(error, model=model, tenant_id=caller(request).tenant_id)
            raise
        return Response(model_body(found, scaling=scaling_of([found])[found.revision_id]))

//! Routes as they are made: each is served and described in one line, so that nothing is served that is not described.

use std::sync::Arc;

use axum::Router;
use axum::routing::MethodRouter;
use schemars::JsonSchema;

use super::Service;
use super::openapi::Document;
use crate::model::verb::{Asked, Route};

/// The routes so far.
pub(super) struct Routes {
    /// What serves them.
    pub(super) router: Router<Arc<dyn Service>>,
    /// What is said of them.
    pub(super) document: Document,
}

impl Routes {
    pub(super) fn new() -> Self {
        Routes { router: Router::new(), document: Document::new() }
    }

    /// A route that changes nothing and answers an `A`.
    pub(super) fn look<A: JsonSchema>(
        self,
        path: &'static str,
        does: &'static str,
        handler: MethodRouter<Arc<dyn Service>>,
    ) -> Self {
        self.add::<(), A>(Route { method: "GET", path, does }, handler)
    }

    /// A route that takes a `B` and answers an `A`.
    pub(super) fn act<B: JsonSchema, A: JsonSchema>(
        self,
        path: &'static str,
        does: &'static str,
        handler: MethodRouter<Arc<dyn Service>>,
    ) -> Self {
        self.add::<B, A>(Route { method: "POST", path, does }, handler)
    }

    /// A route that takes a `B` and answers with each `A` as it comes.
    pub(super) fn stream<B: JsonSchema, A: JsonSchema>(
        mut self,
        path: &'static str,
        does: &'static str,
        handler: MethodRouter<Arc<dyn Service>>,
    ) -> Self {
        self.document.add_stream::<B, A>(&Route { method: "GET", path, does });
        Routes { router: self.router.route(path, handler), ..self }
    }

    /// A verb of the table.
    pub(super) fn verb<V: Asked>(self, handler: MethodRouter<Arc<dyn Service>>) -> Self {
        self.add::<V, V::Answer>(V::ROUTE, handler)
    }

    fn add<B: JsonSchema, A: JsonSchema>(
        mut self,
        route: Route,
        handler: MethodRouter<Arc<dyn Service>>,
    ) -> Self {
        self.document.add::<B, A>(&route);
        Routes { router: self.router.route(route.path, handler), ..self }
    }
}

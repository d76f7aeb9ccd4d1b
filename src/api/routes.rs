//! Routes as they are made: each is served and described in one line, so that nothing is served that is not described.
//! What they do is described for those who ask only: the schemas of all types take a megabyte and milliseconds.

use std::sync::Arc;

use axum::Router;
use axum::routing::MethodRouter;
use schemars::JsonSchema;

use super::Service;
use super::openapi::Document;
use crate::model::verb::Route;

/// The routes so far.
pub(super) struct Routes {
    /// What serves them.
    pub(super) router: Router<Arc<dyn Service>>,
    /// What is said of them, if anybody asks.
    document: Option<Document>,
}

impl Routes {
    /// None yet; they will be served.
    pub(super) fn to_serve() -> Self {
        Routes { router: Router::new(), document: None }
    }

    /// None yet; they will be described.
    pub(super) fn to_describe() -> Self {
        Routes { document: Some(Document::new()), ..Routes::to_serve() }
    }

    /// What was said of them.
    pub(super) fn text(self) -> String {
        self.document.map(Document::text).unwrap_or_default()
    }

    /// A route that changes nothing and answers an `A`.
    pub(super) fn look<A: JsonSchema>(
        mut self,
        path: &'static str,
        does: &'static str,
        handler: MethodRouter<Arc<dyn Service>>,
    ) -> Self {
        self.add::<(), A>(Route { method: "GET", path, does }, handler);
        self
    }

    /// A route that takes a `B` and answers an `A`.
    pub(super) fn act<B: JsonSchema, A: JsonSchema>(
        mut self,
        path: &'static str,
        does: &'static str,
        handler: MethodRouter<Arc<dyn Service>>,
    ) -> Self {
        self.add::<B, A>(Route { method: "POST", path, does }, handler);
        self
    }

    /// A route that changes nothing, takes a `B` in its query and answers an `A`.
    pub(super) fn asks<B: JsonSchema, A: JsonSchema>(
        mut self,
        path: &'static str,
        does: &'static str,
        handler: MethodRouter<Arc<dyn Service>>,
    ) -> Self {
        self.add::<B, A>(Route { method: "GET", path, does }, handler);
        self
    }

    /// Any route that reads headers besides.
    pub(super) fn headed<B: JsonSchema, A: JsonSchema>(
        mut self,
        route: Route,
        headers: &[&str],
        handler: MethodRouter<Arc<dyn Service>>,
    ) -> Self {
        self.add::<B, A>(route, handler);
        if let Some(document) = &mut self.document {
            document.add_headers(&route, headers);
        }
        self
    }

    /// A route that takes a `B` and answers with each `A` as it comes.
    pub(super) fn stream<B: JsonSchema, A: JsonSchema>(
        mut self,
        path: &'static str,
        does: &'static str,
        handler: MethodRouter<Arc<dyn Service>>,
    ) -> Self {
        if let Some(document) = &mut self.document {
            document.add_stream::<B, A>(&Route { method: "GET", path, does });
        }
        self.serve(path, handler);
        self
    }

    /// Any other route that takes a `B` and answers an `A`, like those of the verbs.
    pub(super) fn add<B: JsonSchema, A: JsonSchema>(
        &mut self,
        route: Route,
        handler: MethodRouter<Arc<dyn Service>>,
    ) {
        if let Some(document) = &mut self.document {
            document.add::<B, A>(&route);
        }
        self.serve(route.path, handler);
    }

    fn serve(&mut self, path: &str, handler: MethodRouter<Arc<dyn Service>>) {
        self.router = std::mem::take(&mut self.router).route(path, handler);
    }
}

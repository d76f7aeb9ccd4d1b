//! Builds routes: each is served and described in one line, so that no route lacks a description. Descriptions are made
//! only when asked for: the schemas of all types take a megabyte and milliseconds.

use std::sync::Arc;

use axum::Router;
use axum::routing::MethodRouter;
use schemars::JsonSchema;

use super::Service;
use super::openapi::Document;
use model::verb::Route;

/// The routes so far.
pub(super) struct Routes {
    /// The router that serves them.
    pub(super) router: Router<Arc<dyn Service>>,
    /// The description, if wanted.
    document: Option<Document>,
}

impl Routes {
    /// No routes yet; to serve them.
    pub(super) fn to_serve() -> Self {
        Routes { router: Router::new(), document: None }
    }

    /// No routes yet; to describe them.
    pub(super) fn to_describe() -> Self {
        Routes { document: Some(Document::new()), ..Routes::to_serve() }
    }

    /// The text of the description.
    pub(super) fn text(self) -> String {
        self.document.map(Document::text).unwrap_or_default()
    }

    /// Adds a route that changes nothing and answers an `A`.
    pub(super) fn look<A: JsonSchema>(
        mut self,
        path: &'static str,
        does: &'static str,
        handler: MethodRouter<Arc<dyn Service>>,
    ) -> Self {
        self.add::<(), A>(Route { method: "GET", path, does }, handler);
        self
    }

    /// Adds a route that takes a `B` and answers an `A`.
    pub(super) fn act<B: JsonSchema, A: JsonSchema>(
        mut self,
        path: &'static str,
        does: &'static str,
        handler: MethodRouter<Arc<dyn Service>>,
    ) -> Self {
        self.add::<B, A>(Route { method: "POST", path, does }, handler);
        self
    }

    /// Adds a route that changes nothing, takes a `B` in its query and answers an `A`.
    pub(super) fn asks<B: JsonSchema, A: JsonSchema>(
        mut self,
        path: &'static str,
        does: &'static str,
        handler: MethodRouter<Arc<dyn Service>>,
    ) -> Self {
        self.add::<B, A>(Route { method: "GET", path, does }, handler);
        self
    }

    /// Adds a route that also reads headers.
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

    /// Adds a route that takes a `B` and answers with a stream of `A`, or in one of these other forms.
    pub(super) fn stream<B: JsonSchema, A: JsonSchema>(
        mut self,
        route: Route,
        others: &[&str],
        handler: MethodRouter<Arc<dyn Service>>,
    ) -> Self {
        if let Some(document) = &mut self.document {
            document.add_stream::<B, A>(&route, others);
        }
        self.serve(route.path, handler);
        self
    }

    /// Adds any other route that takes a `B` and answers an `A`, such as a verb.
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

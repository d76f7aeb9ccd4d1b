//! Builds routes: each is served and described in one line, so that no route lacks a description. Descriptions are made by
//! the tests alone, into docs/openapi.json: the program serves that text, and has not the half megabyte of code that makes it.

use std::sync::Arc;

use axum::Router;
use axum::routing::MethodRouter;
use schemars::JsonSchema;

use super::Service;
use super::describe::{Describe, Undescribed};
use super::openapi::Document;
use model::verb::Route;

/// The routes so far.
pub(super) struct Routes<D> {
    /// The router that serves them.
    pub(super) router: Router<Arc<dyn Service>>,
    /// What was noted of them.
    pub(super) document: D,
}

impl Routes<Undescribed> {
    /// No routes yet; to serve them.
    pub(super) fn to_serve() -> Self {
        Routes { router: Router::new(), document: Undescribed }
    }
}

impl Routes<Document> {
    /// No routes yet; to describe them.
    pub(super) fn to_describe() -> Self {
        Routes { router: Router::new(), document: Document::new() }
    }
}

impl<D: Describe> Routes<D> {
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
        self.document.add_headers(&route, headers);
        self
    }

    /// Adds a route that takes a `B` and answers with a stream of `A`, or in one of these other forms.
    pub(super) fn stream<B: JsonSchema, A: JsonSchema>(
        mut self,
        route: Route,
        others: &[&str],
        handler: MethodRouter<Arc<dyn Service>>,
    ) -> Self {
        self.document.add_stream::<B, A>(&route, others);
        self.serve(route.path, handler);
        self
    }

    /// Adds any other route that takes a `B` and answers an `A`, such as a verb.
    pub(super) fn add<B: JsonSchema, A: JsonSchema>(
        &mut self,
        route: Route,
        handler: MethodRouter<Arc<dyn Service>>,
    ) {
        self.document.add::<B, A>(&route);
        self.serve(route.path, handler);
    }

    fn serve(&mut self, path: &str, handler: MethodRouter<Arc<dyn Service>>) {
        self.router = std::mem::take(&mut self.router).route(path, handler);
    }
}

//! What is noted of routes as they are added: all for the description, or nothing where they are only served.

use schemars::JsonSchema;

use model::verb::Route;

/// What is noted of each route.
pub(super) trait Describe {
    /// A route that takes the fields of `B` and answers an `A`.
    fn add<B: JsonSchema, A: JsonSchema>(&mut self, route: &Route);

    /// A route that answers with a stream of `A`, and in `others` forms to who does not accept lines.
    fn add_stream<B: JsonSchema, A: JsonSchema>(&mut self, route: &Route, others: &[&str]);

    /// Optional headers of a route that was added.
    fn add_headers(&mut self, route: &Route, headers: &[&str]);
}

/// Notes nothing: the routes are only served.
pub(super) struct Undescribed;

impl Describe for Undescribed {
    fn add<B: JsonSchema, A: JsonSchema>(&mut self, _: &Route) {}

    fn add_stream<B: JsonSchema, A: JsonSchema>(&mut self, _: &Route, _: &[&str]) {}

    fn add_headers(&mut self, _: &Route, _: &[&str]) {}
}

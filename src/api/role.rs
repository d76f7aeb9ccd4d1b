//! Roles: what the token of a client by TCP lets it ask for.

use axum::http::Method;

use super::Problem;
use model::JobRecord;

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Everything that the socket offers, but for programs, which have a setting of their own.
    All,
    /// To look: all that changes nothing, with the data of jobs.
    View,
    /// To put jobs, and to ask for those that came with this role's token.
    Put,
}

/// The routes of a client that puts. The last three show its own jobs only, which the routes themselves see to.
const OF_PUT: [(Method, &str); 6] = [
    (Method::GET, "/v1"),
    (Method::GET, "/v1/openapi.json"),
    (Method::POST, "/v1/jobs"),
    (Method::GET, "/v1/jobs/{job}"),
    (Method::GET, "/v1/jobs/{job}/wait"),
    (Method::POST, "/v1/wait"),
];

/// The route that shows names of open files, and asks the kernel about processes of others.
const PICTURE: &str = "/v1/jobs/{job}/picture";

impl Role {
    /// The name of the token in settings, refusals and histories.
    pub(super) fn token(self) -> &'static str {
        match self {
            Role::All => "token",
            Role::View => "view token",
            Role::Put => "put token",
        }
    }

    /// Refuses a route that is not for this role. `route` has its parameters in braces; there is none for a path that
    /// leads nowhere.
    pub(super) fn judge(self, method: &Method, route: Option<&str>) -> Result<(), Problem> {
        let looks = [Method::GET, Method::HEAD].contains(method);
        let opens = match self {
            Role::All => true,
            // This one looks, too: its question is too long for a query.
            Role::View => {
                (looks && route != Some(PICTURE)) || (method == Method::POST && route == Some("/v1/wait"))
            }
            Role::Put => {
                // axum answers HEAD by the handler of GET.
                let method = if looks { &Method::GET } else { method };
                OF_PUT.iter().any(|(of_put, path)| of_put == method && Some(*path) == route)
            }
        };
        if opens {
            return Ok(());
        }
        let what = route.unwrap_or("this path");
        Err(Problem::new(403, format!("the {} does not open {method} {what}", self.token()))
            .hint(self.hint()))
    }

    fn hint(self) -> &'static str {
        match self {
            Role::All | Role::View => {
                "it is for looking; what changes something takes the token of api.token_file"
            }
            Role::Put => "it is for puts and their jobs; others are api.view_token_file and api.token_file",
        }
    }

    /// Refuses a job that did not come with this role's token, where the role has no others.
    pub(super) fn judge_job(self, job: &JobRecord) -> Result<(), Problem> {
        let mark = mark(self);
        let why = match (self, &job.put_by) {
            (Role::All | Role::View, _) => return Ok(()),
            (Role::Put, Some(by)) if by.ends_with(&mark) => return Ok(()),
            (Role::Put, Some(_)) => "was not put with it",
            (Role::Put, None) => "has no record of who put it",
        };
        let (token, id) = (self.token(), &job.id);
        Err(Problem::new(403, format!("the {token} does not show job '{id}', which {why}"))
            .hint(Role::Put.hint()))
    }
}

/// What stands behind the address of a client that came with this token; nothing for the one that may do all.
pub(super) fn mark(role: Role) -> String {
    match role {
        Role::All => String::new(),
        Role::View | Role::Put => format!(" ({})", role.token()),
    }
}

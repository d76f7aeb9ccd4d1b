//! The tasks that a request means: of which owner, and with which status. By headers as in QuantumLeap, or by query.

use axum::extract::Query;
use axum::http::{HeaderMap, Uri};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::super::Problem;
use model::Filter;
use wq::{AskedStatus, Scope};

/// The owner of the tasks, by headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Whose {
    /// `ngsild-tenant` or else `fiware-service`.
    pub tenant: Option<String>,
    /// The value of `fiware-servicepath`.
    pub path: Option<String>,
    /// The value of `fiware-correlator`.
    pub correlator: Option<String>,
}

impl Whose {
    /// The headers for the owner.
    pub(super) const HEADERS: [&str; 4] =
        ["ngsild-tenant", "fiware-service", "fiware-servicepath", "fiware-correlator"];
    /// The path if a request names none.
    const ROOT: &str = "/";

    pub(super) fn of(headers: &HeaderMap) -> Result<Whose, Problem> {
        let [ngsi, fiware, path, correlator] = Whose::HEADERS.map(|name| header(headers, name));
        Ok(Whose { tenant: ngsi?.or(fiware?), path: path?, correlator: correlator? })
    }

    pub(super) fn tenant(&self) -> String {
        self.tenant.clone().unwrap_or_default()
    }

    pub(super) fn path(&self) -> String {
        self.path.clone().unwrap_or_else(|| Whose::ROOT.into())
    }

    /// The tasks of the tenant and path, and of the correlator if one is named.
    pub(super) fn scope(&self) -> Scope {
        Scope { tenant: self.tenant(), within: Some((self.path(), self.correlator.clone())) }
    }

    /// The same; None if no header names the owner.
    pub(super) fn scope_if_said(&self) -> Option<Scope> {
        let says = [&self.tenant, &self.path, &self.correlator].iter().any(|said| said.is_some());
        says.then(|| self.scope())
    }
}

/// The value of a header; an empty one counts as missing.
pub(super) fn header(headers: &HeaderMap, name: &str) -> Result<Option<String>, Problem> {
    let mut all = headers.get_all(name).iter();
    let Some(value) = all.next() else { return Ok(None) };
    // Nobody could say which of them counts.
    if all.next().is_some() {
        return Err(Problem::bad_request(format!("the header {name} is given twice")));
    }
    let text = std::str::from_utf8(value.as_bytes())
        .map_err(|_| Problem::bad_request(format!("the header {name} is no text in UTF-8")))?;
    Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty()))
}

/// Tasks of one status, as QuantumLeap asks for them. What else is in the query is passed over, as there.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(super) struct ByStatus {
    /// Tasks of this status; all if it is left out.
    #[serde(default, rename = "taskStatus", skip_serializing_if = "Option::is_none")]
    task_status: Option<AskedStatus>,
}

impl ByStatus {
    pub(super) fn of(uri: &Uri) -> Result<Option<AskedStatus>, Problem> {
        query(uri).map(|asked: ByStatus| asked.task_status)
    }
}

/// Whose tasks, and of which status.
// A request must name the tenant where `T` is `String`; it may where `T` is `Option<String>`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked<T = String> {
    /// Of this tenant; empty for the default one, which has no name.
    tenant: T,
    /// Of this service path; all paths of the tenant if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    service_path: Option<String>,
    /// Of this exchange; takes a service path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    correlator: Option<String>,
    /// Tasks of this status; all if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<AskedStatus>,
}

impl<T: DeserializeOwned> Asked<T> {
    pub(super) fn of(uri: &Uri) -> Result<Asked<T>, Problem> {
        query(uri)
    }

    /// The service path and the correlator.
    fn within(&self) -> Result<Option<(String, Option<String>)>, Problem> {
        match (&self.service_path, &self.correlator) {
            (None, Some(_)) => {
                Err(Problem::bad_request("tasks are found by correlator within a service path")
                    .hint("name the service_path, too: the default one is /"))
            }
            (None, None) => Ok(None),
            (Some(path), correlator) => Ok(Some((path.clone(), correlator.clone()))),
        }
    }
}

impl Asked {
    /// The tasks of a tenant.
    pub(super) fn scope(&self) -> Result<Scope, Problem> {
        Ok(Scope { tenant: self.tenant.clone(), within: self.within()? })
    }
}

impl Asked<Option<String>> {
    /// The tasks of a tenant; None if nothing names the owner.
    pub(super) fn scope_if_said(&self) -> Result<Option<Scope>, Problem> {
        match (&self.tenant, self.within()?) {
            (Some(tenant), within) => Ok(Some(Scope { tenant: tenant.clone(), within })),
            (None, None) => Ok(None),
            (None, Some(_)) => Err(Problem::bad_request("a service path is one of a tenant")
                .hint("name the tenant, too: `tenant=` is the default one")),
        }
    }
}

fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, Problem> {
    Query::<T>::try_from_uri(uri)
        .map(|Query(asked)| asked)
        .map_err(|error| Problem::bad_request(error.body_text()))
}

/// The jobs of these tasks, in the order of their ids.
pub(super) fn filter(scope: &Scope, status: Option<AskedStatus>) -> Filter {
    Filter {
        id_prefix: Some(scope.prefix()),
        states: status.map(AskedStatus::states).unwrap_or_default(),
        limit: 0,
        ..Filter::default()
    }
}

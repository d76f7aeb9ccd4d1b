//! The tasks that a request means: of which owner, and with which status. By headers as in QuantumLeap, or by query.

use axum::extract::Query;
use axum::http::{HeaderMap, Uri};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::Problem;
use crate::model::Filter;
use crate::wq::{Scope, TaskStatus};

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
    /// `pending`, `succeeded` or `failed`; all if it is left out.
    #[serde(default, rename = "taskStatus", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<TaskStatus>")]
    task_status: Option<String>,
}

impl ByStatus {
    pub(super) fn of(uri: &Uri) -> Result<Option<TaskStatus>, Problem> {
        let asked: ByStatus = query(uri)?;
        status(asked.task_status.as_deref())
    }
}

/// Whose tasks, and of which status.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    /// Of this tenant; may be empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// Of this service path; all paths of the tenant if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    service_path: Option<String>,
    /// Of this exchange; takes a service path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    correlator: Option<String>,
    /// `pending`, `succeeded` or `failed`; all if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<TaskStatus>")]
    status: Option<String>,
}

impl Asked {
    pub(super) fn of(uri: &Uri) -> Result<Asked, Problem> {
        query(uri)
    }

    pub(super) fn status(&self) -> Result<Option<TaskStatus>, Problem> {
        status(self.status.as_deref())
    }

    /// The tasks of a tenant.
    pub(super) fn scope(&self) -> Result<Scope, Problem> {
        let none = "name a tenant: `tenant=` is the default one, without a name";
        self.scope_if_said()?.ok_or_else(|| Problem::bad_request("this takes a tenant").hint(none))
    }

    /// The same; None if nothing names the owner.
    pub(super) fn scope_if_said(&self) -> Result<Option<Scope>, Problem> {
        let within = match (&self.service_path, &self.correlator) {
            (None, Some(_)) => {
                return Err(Problem::bad_request("tasks are found by correlator within a service path")
                    .hint("name the service_path, too: the default one is /"));
            }
            (None, None) => None,
            (Some(path), correlator) => Some((path.clone(), correlator.clone())),
        };
        match (&self.tenant, &within) {
            (Some(tenant), _) => Ok(Some(Scope { tenant: tenant.clone(), within })),
            (None, None) => Ok(None),
            (None, Some(_)) => Err(Problem::bad_request("a service path is one of a tenant")
                .hint("name the tenant, too: `tenant=` is the default one")),
        }
    }
}

fn query<T: serde::de::DeserializeOwned>(uri: &Uri) -> Result<T, Problem> {
    Query::<T>::try_from_uri(uri)
        .map(|Query(asked)| asked)
        .map_err(|error| Problem::bad_request(error.body_text()))
}

fn status(text: Option<&str>) -> Result<Option<TaskStatus>, Problem> {
    text.map(str::parse).transpose().map_err(Problem::bad_request)
}

/// The jobs of these tasks, in the order of their ids.
pub(super) fn filter(scope: &Scope, status: Option<TaskStatus>) -> Filter {
    Filter {
        id_prefix: Some(scope.prefix()),
        states: status.map(TaskStatus::states).unwrap_or_default(),
        limit: 0,
        ..Filter::default()
    }
}

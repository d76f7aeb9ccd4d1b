//! The credentials of AWS's usual chain, asked afresh after each failure.
//!
//! The SDK's own chain gives the reason of a broken profile once, and only refers to it from then on. So
//! after a failure the next request makes a new chain: it says the reason again, and sees a profile that was mended.

use std::env;

use aws_config::Region;
use aws_config::default_provider::credentials::DefaultCredentialsChain;
use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, Result as Found, future};
use aws_sdk_sqs::config::SharedHttpClient;
use tokio::sync::Mutex;

/// The chain of AWS: environment, profile, web identity, container, instance.
#[derive(Debug)]
pub(super) struct Credentials {
    region: Region,
    http: SharedHttpClient,
    chain: Mutex<Option<DefaultCredentialsChain>>,
}

impl Credentials {
    /// Of a region, over connections of this kind.
    pub(super) fn new(region: Region, http: SharedHttpClient) -> Credentials {
        Credentials { region, http, chain: Mutex::new(None) }
    }

    /// A new one for each chain, as it keeps the profiles that it has read.
    fn means(&self) -> ProviderConfig {
        let plain = ProviderConfig::without_region().with_http_client(self.http.clone());
        plain.with_region(Some(self.region.clone()))
    }

    async fn load(&self) -> Found {
        let mut kept = self.chain.lock().await;
        // After an error none is kept: the next one reads changed profiles.
        let chain = match kept.take() {
            Some(chain) => chain,
            // Without the region it would ask the instance for one, for seconds where there is none.
            None => {
                let chain = DefaultCredentialsChain::builder().configure(self.means());
                chain.region(self.region.clone()).build().await
            }
        };
        match chain.provide_credentials().await {
            Ok(found) => {
                *kept = Some(chain);
                Ok(found)
            }
            Err(error) => Err(self.reason(error).await),
        }
    }

    /// Where AWS_PROFILE names a profile, the chain's error is that of this profile: no other is meant.
    async fn reason(&self, error: CredentialsError) -> CredentialsError {
        let Ok(profile) = env::var("AWS_PROFILE") else { return told("", error) };
        let alone = ProfileFileCredentialsProvider::builder().configure(&self.means()).profile_name(&profile);
        match alone.build().provide_credentials().await {
            Err(first) => told(&format!("AWS_PROFILE={profile}: "), first),
            Ok(_) => error,
        }
    }
}

impl ProvideCredentials for Credentials {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(self.load())
    }
}

/// The error in words for a person.
fn told(start: &str, error: CredentialsError) -> CredentialsError {
    let text = std::iter::successors(Some(&error as &dyn std::error::Error), |cause| cause.source())
        .map(ToString::to_string)
        .last()
        .unwrap_or_default();
    for (feature, what) in [
        ("enabled: sso", "it signs in by SSO"),
        ("enabled: credentials-login", "it is a session of `aws login`"),
    ] {
        if text.contains(feature) {
            let advice = "which is not built in: give the supervisor a profile with `credential_process = aws configure \
                          export-credentials --format process --profile NAME`";
            return CredentialsError::invalid_configuration(format!("{start}{what}, {advice}"));
        }
    }
    if start.is_empty() { error } else { CredentialsError::invalid_configuration(format!("{start}{text}")) }
}

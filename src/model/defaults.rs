//! Settings with their defaults, each on one line.

/// Declares a struct whose `Default` stands beside its fields.
#[macro_export]
macro_rules! with_defaults {
    ($(#[$outer:meta])* pub struct $Name:ident {
        $($(#[$doc:meta])* pub $field:ident: $kind:ty = $default:expr,)*
    }) => {
        $(#[$outer])*
        pub struct $Name {
            $($(#[$doc])* pub $field: $kind,)*
        }

        impl Default for $Name {
            fn default() -> Self {
                $Name { $($field: $default,)* }
            }
        }
    };
}

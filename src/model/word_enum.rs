//! Enums whose variants are words for people and programs.

/// Declares an enum with one word for each variant: in JSON, in settings, on the command line and on the screen. Its
/// `ALL` has the variants in the order in which they stand.
macro_rules! word_enum {
    ($(#[$about:meta])* pub enum $name:ident {
        $($(#[$of:meta])* $variant:ident $(= $number:literal)? => $word:literal,)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub enum $name {
            $($(#[$of])* #[serde(rename = $word)] $variant $(= $number)?,)*
        }

        impl $name {
            /// All values, in the order of the documentation.
            // A macro cannot count its rows; the length of an array of the words can be taken.
            pub const ALL: [$name; [$($word),*].len()] = [$($name::$variant),*];

            /// The word that people and programs type and read.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

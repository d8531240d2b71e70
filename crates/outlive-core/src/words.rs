//! Enums whose values are words: on the wire, in logs, as labels of metrics.

/// Defines an enum, the word for each of its values, and the list of all of them. What counts by such a value has a
/// place for each, and the compiler knows when one is added.
macro_rules! words {
    (
        $(#[$about:meta])*
        pub enum $name:ident { $($(#[$doc:meta])* $value:ident => $word:literal),+ $(,)? }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$doc])* $value),+ }

        impl $name {
            /// All of them.
            pub const ALL: [$name; [$($word),+].len()] = [$($name::$value),+];

            /// The word for it on the wire, in logs and in metrics.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$value => $word),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

pub(crate) use words;

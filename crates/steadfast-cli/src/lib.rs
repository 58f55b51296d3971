//! The program `steadfast` as a library: arguments, settings, commands.

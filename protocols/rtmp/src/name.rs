//! Stream names out of URLs and commands.

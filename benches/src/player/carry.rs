//! Fixed-size fields that a read may have cut in two.

/// Collects up to `N` bytes of a field over several reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Carry<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Default for Carry<N> {
    fn default() -> Self {
        Self {
            bytes: [0; N],
            len: 0,
        }
    }
}

impl<const N: usize> Carry<N> {
    /// Takes bytes from the front of `input` until the field has `len` bytes; whether it has.
    pub(crate) fn fill(&mut self, input: &mut &[u8], len: usize) -> bool {
        let missing = len.min(N).saturating_sub(self.len);
        let (taken, rest) = input.split_at(missing.min(input.len()));
        if let Some(to) = self.bytes.get_mut(self.len..self.len + taken.len()) {
            to.copy_from_slice(taken);
        }
        self.len += taken.len();
        *input = rest;
        taken.len() == missing
    }

    /// What has been collected.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// Empties the field for the next.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }
}

/// Takes at most `len` bytes from the front of `input`.
pub(crate) fn take<'a>(input: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (taken, rest) = input.split_at(len.min(input.len()));
    *input = rest;
    taken
}

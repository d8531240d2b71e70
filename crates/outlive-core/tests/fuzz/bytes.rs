//! Bytes that decide what happens.

/// The bytes that are left; zeros when they are used up.
pub struct Schedule<'a>(pub &'a [u8]);

impl<'a> Schedule<'a> {
    pub fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        byte
    }

    pub fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    pub fn bytes(&mut self) -> &'a [u8] {
        let len = self.below(96).min(self.0.len());
        let (bytes, rest) = self.0.split_at(len);
        self.0 = rest;
        bytes
    }
}

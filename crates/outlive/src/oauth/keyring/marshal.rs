//! How values are written on the bus and read from it (D-Bus, "marshaling"): numbers in little endian, or as the other
//! side has them, each at a multiple of its size.

/// The arguments of a call, in order.
#[derive(Default)]
pub(super) struct Body(pub(super) Vec<u8>);

impl Body {
    pub(super) fn align(&mut self, to: usize) {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
    }

    pub(super) fn number(&mut self, number: usize) {
        self.align(4);
        // What is longer is refused before it is sent.
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// A text, or the path of an object.
    pub(super) fn text(&mut self, text: &str) {
        self.number(text.len());
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn flag(&mut self, flag: bool) {
        self.number(flag.into());
    }

    pub(super) fn signature(&mut self, signature: &str) {
        self.0
            .push(u8::try_from(signature.len()).unwrap_or(u8::MAX));
        self.0.extend_from_slice(signature.as_bytes());
        self.0.push(0);
    }

    pub(super) fn variant(&mut self, put: impl FnOnce(&mut Body), signature: &str) {
        self.signature(signature);
        put(self);
    }

    /// An array of what has this alignment.
    pub(super) fn array(&mut self, alignment: usize, put: impl FnOnce(&mut Body)) {
        self.number(0);
        let length = self.0.len() - 4;
        self.align(alignment);
        let begin = self.0.len();
        put(self);
        let size = u32::try_from(self.0.len() - begin).unwrap_or(u32::MAX);
        self.0[length..length + 4].copy_from_slice(&size.to_le_bytes());
    }
}

/// Reads what was marshalled; none if it is not what it should be.
pub(super) struct Reader<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
    pub(super) little: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn align(&mut self, to: usize) -> Option<()> {
        self.at = self.at.checked_next_multiple_of(to)?;
        (self.at <= self.bytes.len()).then_some(())
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(taken)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|it| it[0])
    }

    pub(super) fn number(&mut self) -> Option<u32> {
        self.align(4)?;
        let bytes = self.take(4)?.try_into().ok()?;
        Some(match self.little {
            true => u32::from_le_bytes(bytes),
            false => u32::from_be_bytes(bytes),
        })
    }

    pub(super) fn length(&mut self) -> Option<usize> {
        self.number()?.try_into().ok()
    }

    /// A text, or the path of an object.
    pub(super) fn text(&mut self) -> Option<String> {
        let length = self.length()?;
        let text = String::from_utf8(self.take(length)?.to_vec()).ok()?;
        (self.byte()? == 0).then_some(text)
    }

    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }

    pub(super) fn flag(&mut self) -> Option<bool> {
        match self.number()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(super) fn signature(&mut self) -> Option<String> {
        let length = self.byte()?.into();
        let text = String::from_utf8(self.take(length)?.to_vec()).ok()?;
        (self.byte()? == 0).then_some(text)
    }

    /// A variant that holds a text, as those have that are of no interest here.
    pub(super) fn skip_text_variant(&mut self) -> Option<()> {
        match self.signature()?.as_str() {
            "s" | "o" => self.text().map(drop),
            "ay" => self.bytes().map(drop),
            _ => None,
        }
    }

    /// An array of texts.
    pub(super) fn texts(&mut self) -> Option<Vec<String>> {
        let length = self.length()?;
        let end = self.at.checked_add(length)?;
        let mut texts = Vec::new();
        while self.at < end {
            texts.push(self.text()?);
        }
        (self.at == end).then_some(texts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bytes_break_the_reader() {
        // A small generator, so that a failure can be repeated.
        let mut seed = 7u64;
        let mut next = move || {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (seed >> 33) as u8
        };
        for _ in 0..20_000 {
            let length = usize::from(next() % 64);
            let bytes: Vec<u8> = (0..length).map(|_| next() % 12).collect();
            let reader = || Reader {
                bytes: &bytes,
                at: 0,
                little: true,
            };
            let _ = (
                reader().texts(),
                reader().text(),
                reader().skip_text_variant(),
            );
        }
    }
}

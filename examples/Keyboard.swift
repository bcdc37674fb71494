// A sketch for iOS, not compiled and not run here. It calls the C core, which is imported through a bridging header (docs/embedding.md).
// Words are split by the patterns of text.json (docs/export.md); a test runs both over its vectors, in JavaScript.
import Foundation

private let folded = [
    "\u{2019}": "'", "\u{02bc}": "'", "\u{ff07}": "'", "\u{2026}": "...",
    "\u{00ad}": "", "\u{200b}": "", "\u{2060}": "", "\u{feff}": "",
]
private let piecePattern = try! NSRegularExpression(pattern: #"\p{Nd}+(?:[.,:]\p{Nd}+)*(?:(?:[sS\u017f][tT]|[nN][dD]|[rR][dD]|[tT][hH]|'?[sS\u017f])(?![\p{L}\p{N}])|\ufe0f?\u20e3)?"#
    + #"|[\p{L}\p{N}][\p{L}\p{N}\p{M}\u200c\u200d]*(?:'[\p{L}\p{N}\p{M}\u200c\u200d]+)*"#
    + #"|\.\.+|\n|_|[\x{1f1e6}-\x{1f1ff}]{2}"#
    + #"|[^\p{L}\p{N}\p{Z}\p{Cc}\u200c\u200d][\u0300-\u036f\u20d0-\u20ff\ufe00-\ufe0f\x{1f3fb}-\x{1f3ff}\x{e0020}-\x{e007f}]*"#
    + #"(?:\u200d[^\p{L}\p{N}\p{Z}\p{Cc}\u200c\u200d][\u0300-\u036f\u20d0-\u20ff\ufe00-\ufe0f\x{1f3fb}-\x{1f3ff}\x{e0020}-\x{e007f}]*)*"#)
private let prefixPattern = try! NSRegularExpression(pattern: #"[\p{L}\p{N}][\p{L}\p{N}\p{M}\u200c\u200d']*(?![\s\S])"#)

/// "Hey, are yo": the words <eos> hey , are and the prefix yo.
func split(_ text: String) -> (words: [String], prefix: String) {
    let plain = folded.reduce(text) { $0.replacingOccurrences(of: $1.key, with: $1.value, options: .literal) } as NSString
    let whole = NSRange(location: 0, length: plain.length)
    let start = prefixPattern.firstMatch(in: plain as String, range: whole)?.range.location ?? plain.length
    var words = ["<eos>"]
    for match in piecePattern.matches(in: plain as String, range: whole) where NSMaxRange(match.range) <= start {
        let found = plain.substring(with: match.range)
        if found == "\n" {
            if words.last != "<eos>" { words.append("<eos>") }
        } else if found.unicodeScalars.first!.properties.generalCategory == .decimalNumber {
            words.append("<num>")
        } else {
            words.append(found.hasPrefix("..") ? "..." : found.lowercased())
        }
    }
    return (words, plain.substring(from: start).lowercased())
}

/// Which words may be suggested, from suggestible.bin of `rheostat export --engine core`: no signs and no hidden words.
func makeMask(_ suggestible: Data) -> [UInt8] {
    suggestible.map { $0 == 1 ? 1 : 0 }
}

/// The three best words for the text before the cursor, in lower case; docs/export.md says how they get capitals. The model, position
/// and memory are set up as in example.c. The mask has one byte for each word of the model. An app keeps the state after each word.
func complete(_ text: String, model: OpaquePointer, position: UnsafePointer<rheo_position>, state: OpaquePointer,
              answer: OpaquePointer, scratch: OpaquePointer, mask: [UInt8]) -> [String] {
    let (words, prefix) = split(text)
    rheo_start(model, state)
    for word in words {
        let id = rheo_find_word(model, word, word.utf8.count)
        rheo_step(model, position, state, id < 0 ? rheo_unknown_id(model) : id, scratch, nil)
    }
    rheo_predict(model, position, state, answer, nil)
    var found: Int32 = 0
    var ids = [Int32](repeating: 0, count: 3)
    var scores = [Float](repeating: 0, count: 3)
    mask.withUnsafeBufferPointer { allowed in
        prefix.withCString { letters in
            var choice = rheo_choice()
            choice.mask = allowed.baseAddress
            choice.prefix = letters
            choice.prefix_length = prefix.utf8.count
            _ = rheo_best(model, answer, &choice, 3, &ids, &scores, &found, nil)
        }
    }
    return ids.prefix(Int(found)).compactMap { id in
        var length: Int32 = 0
        guard let bytes = rheo_word(model, id, &length) else { return nil }
        return String(decoding: UnsafeRawBufferPointer(start: bytes, count: Int(length)), as: UTF8.self)
    }
}

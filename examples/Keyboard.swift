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

/// The three best words for the text before the cursor. The model, position and memory are set up as in example.c. An app keeps the
/// state after each word, and passes a mask that leaves out signs and hidden words.
func complete(_ text: String, model: OpaquePointer, position: UnsafePointer<rheo_position>, state: OpaquePointer,
              answer: OpaquePointer, scratch: OpaquePointer) -> [String] {
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
    prefix.withCString { letters in
        var choice = rheo_choice()
        choice.prefix = letters
        choice.prefix_length = prefix.utf8.count
        rheo_best(model, answer, &choice, 3, &ids, &scores, &found, nil)
    }
    return ids.prefix(Int(found)).compactMap { id in
        var length: Int32 = 0
        guard let bytes = rheo_word(model, id, &length) else { return nil }
        return String(decoding: UnsafeRawBufferPointer(start: bytes, count: Int(length)), as: UTF8.self)
    }
}

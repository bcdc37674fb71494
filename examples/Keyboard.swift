// A sketch for iOS, not compiled and not run here. The C core is imported through a bridging header (docs/embedding.md). Words are split
// as text.json of an exported folder says; run its vectors over `pieces` before you trust it.
import Foundation

/// The words of a text and the word being typed: "Hey, are yo" is hey , are and the prefix yo.
func split(_ text: String) -> (words: [String], prefix: String) {
    let plain = text.replacingOccurrences(of: "’", with: "'").lowercased()
    let piece = try! NSRegularExpression(pattern: "\\d+(?:[.,:]\\d+)*|[\\p{L}\\p{M}\\d]+(?:'[\\p{L}\\p{M}\\d]+)*|\\.\\.\\.|[^\\s\\p{L}\\d]")
    let range = NSRange(plain.startIndex..., in: plain)
    var pieces = piece.matches(in: plain, range: range).map { String(plain[Range($0.range, in: plain)!]) }
    let isOpen = plain.last.map { $0.isLetter || $0.isNumber || $0 == "'" } ?? false
    let prefix = isOpen ? pieces.removeLast() : ""
    return (pieces.map { $0.first!.isNumber ? "<num>" : $0 }, prefix)
}

/// The three best words for the text before the cursor. The model, position and memory are set up as in example.c.
func complete(_ text: String, model: OpaquePointer, position: UnsafePointer<rheo_position>, state: OpaquePointer,
              answer: OpaquePointer, scratch: OpaquePointer) -> [String] {
    let (words, prefix) = split(text)
    rheo_start(model, state)
    rheo_step(model, position, state, rheo_end_id(model), scratch, nil)
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

// A sketch for Android, not compiled and not run here. It calls the C core through bridge.cpp of docs/embedding.md. Words are split by
// the patterns of text.json (docs/export.md); a test runs both over its vectors, in JavaScript.
package com.example

import java.nio.ByteBuffer

/**
 * Both files are of `rheostat export --engine core`. file: model.safetensors, as a direct buffer (FileChannel.map).
 * suggestible: the bytes of suggestible.bin, so that hidden words are left out.
 */
class Keyboard(private val file: ByteBuffer, suggestible: ByteArray, knob: Float) : AutoCloseable {
    private val handle = open(file, suggestible, knob)
    private var known = emptyList<String>() // the words that were read since the last start

    private external fun open(file: ByteBuffer, suggestible: ByteArray, knob: Float): Long
    private external fun start(handle: Long)
    private external fun read(handle: Long, word: ByteArray)
    private external fun complete(handle: Long, prefix: ByteArray): ByteArray
    private external fun free(handle: Long)

    /** The three best words for the text before the cursor, in lower case; docs/export.md says how they get capitals. */
    fun suggest(text: String): List<String> {
        val (words, prefix) = split(text)
        if (words.take(known.size) != known) { // something was changed or deleted: read the text again
            start(handle)
            known = emptyList()
        }
        for (word in words.drop(known.size)) read(handle, word.encodeToByteArray())
        known = words
        return complete(handle, prefix.encodeToByteArray()).decodeToString().split("\n").filter { it.isNotEmpty() }
    }

    override fun close() = free(handle)

    companion object {
        init { System.loadLibrary("rheostat") }

        private val folded = mapOf(
            "\u2019" to "'", "\u02bc" to "'", "\uff07" to "'", "\u2026" to "...",
            "\u00ad" to "", "\u200b" to "", "\u2060" to "", "\ufeff" to ""
        )
        private val piecePattern = Regex(
            """\p{Nd}+(?:[.,:]\p{Nd}+)*(?:(?:[sS\u017f][tT]|[nN][dD]|[rR][dD]|[tT][hH]|'?[sS\u017f])(?![\p{L}\p{N}])|\ufe0f?\u20e3)?""" +
            """|[\p{L}\p{N}][\p{L}\p{N}\p{M}\u200c\u200d]*(?:'[\p{L}\p{N}\p{M}\u200c\u200d]+)*""" +
            """|\.\.+|\n|_|[\x{1f1e6}-\x{1f1ff}]{2}""" +
            """|[^\p{L}\p{N}\p{Z}\p{Cc}\u200c\u200d][\u0300-\u036f\u20d0-\u20ff\ufe00-\ufe0f\x{1f3fb}-\x{1f3ff}\x{e0020}-\x{e007f}]*""" +
            """(?:\u200d[^\p{L}\p{N}\p{Z}\p{Cc}\u200c\u200d][\u0300-\u036f\u20d0-\u20ff\ufe00-\ufe0f\x{1f3fb}-\x{1f3ff}\x{e0020}-\x{e007f}]*)*"""
        )
        private val prefixPattern = Regex("""[\p{L}\p{N}][\p{L}\p{N}\p{M}\u200c\u200d']*(?![\s\S])""")

        /** "Hey, are yo": the words <eos> hey , are and the prefix yo. */
        fun split(text: String): Pair<List<String>, String> {
            val plain = folded.entries.fold(text) { now, (sign, simple) -> now.replace(sign, simple) }
            val start = prefixPattern.find(plain)?.range?.first ?: plain.length
            val words = mutableListOf("<eos>")
            for (match in piecePattern.findAll(plain)) {
                val found = match.value
                if (match.range.last >= start) break
                when {
                    found == "\n" -> if (words.last() != "<eos>") words += "<eos>"
                    found[0].isDigit() -> words += "<num>"
                    found.startsWith("..") -> words += "..."
                    else -> words += found.lowercase()
                }
            }
            return words to plain.substring(start).lowercase()
        }
    }
}

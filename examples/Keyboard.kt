// A sketch for Android, not compiled and not run here. The native functions are those of docs/embedding.md (bridge.cpp), which calls
// the C core. Words are split as text.json of an exported folder says; run its vectors over `read` before you trust it.
package com.example

import java.nio.ByteBuffer

class Keyboard(file: ByteBuffer, knob: Float) {
    private val handle = open(file, knob)

    private external fun open(file: ByteBuffer, knob: Float): Long
    private external fun read(handle: Long, word: String)
    private external fun complete(handle: Long, prefix: String): Array<String>

    private val piece = Regex("""\d+(?:[.,:]\d+)*|[\p{L}\p{M}\d]+(?:'[\p{L}\p{M}\d]+)*|\.\.\.|[^\s\p{L}\d]""")

    /** "Hey, are yo": the words hey , are, and the prefix yo. */
    fun suggest(text: String): Array<String> {
        val plain = text.replace('’', '\'').lowercase()
        val pieces = piece.findAll(plain).map { it.value }.toList()
        val isOpen = plain.lastOrNull()?.let { it.isLetterOrDigit() || it == '\'' } ?: false
        val whole = if (isOpen) pieces.dropLast(1) else pieces
        for (word in whole) read(handle, if (word[0].isDigit()) "<num>" else word)
        return complete(handle, if (isOpen) pieces.last() else "")
    }

    companion object { init { System.loadLibrary("rheostat") } }
}

// Pictures: shown on a terminal that can, else saved in a file that is named.
#pragma once

#include "base/buf.h"
#include "base/err.h"

// Which way our terminal takes pictures, by the environment, else by asking it: that takes a
// moment, at most 0.3 s, and what is typed meanwhile is lost. Nothing but a terminal is asked.
enum picture_way { PICTURE_UNKNOWN, PICTURE_SAVED, PICTURE_KITTY, PICTURE_ITERM, PICTURE_SIXEL };
enum picture_way picture_way(void);
// COVE_PICTURES, and the answer of a terminal to ASK; for picture_way() and its test.
bool picture_by_word(const char *word, enum picture_way *out);
enum picture_way picture_by_answer(struct str answer);

// `kind` as in events: "png", "jpeg", "svg". `bytes` are hostile: they go to a terminal only in a
// coat that holds whatever they are.
fallible picture_show(enum picture_way way, const char *kind, struct str bytes);

// Pictures: shown on a terminal that can, else saved to a file.
#pragma once

#include "base/buf.h"
#include "base/err.h"

// The protocol of our terminal, by its environment, else by a query: that takes at most 0.3 s, and
// keys typed meanwhile are lost. Only a terminal is asked.
enum picture_way { PICTURE_UNKNOWN, PICTURE_SAVED, PICTURE_KITTY, PICTURE_ITERM };
enum picture_way picture_way(void);
// COVE_PICTURES, and the parser of a terminal's reply; for picture_way() and its test.
bool picture_by_word(const char *word, enum picture_way *out);
enum picture_way picture_by_answer(struct str answer);

// `kind` as in events: "png", "jpeg", "svg". `bytes` are hostile: they reach the terminal only
// encoded.
fallible picture_show(enum picture_way way, const char *kind, struct str bytes);

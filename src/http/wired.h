// The way of an exchange on a connection, with its parts that have files of their own.
#pragma once

#include "http/http.h"
#include "http/way.h"

// http/peer
void wired_be_patient(struct http *x);
fallible wired_away(struct http *x, struct str probe);
void wired_back(struct http *x);
bool wired_is_gone(struct http *x, struct str probe);

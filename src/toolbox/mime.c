// Two tables: extensions and magic numbers. The type names are those of Cloudflare's container
// server, which clients see in `mimeType`, including its odd ones: TypeScript is text/javascript,
// SQL counts as binary.
#include "toolbox/mime.h"

#include <ctype.h>
#include <stdio.h>

#include "codec/text.h"

#define EXTENSION_MAX 12

// clang-format off
static const struct {
	const char *extensions, *type; // separated and enclosed by blanks
} names[] = {
	{" txt text log ini conf cfg py pyw rs go c h cc cpp cxx hpp java kt rb pl lua r env properties "
	 "gitignore dockerignore editorconfig list in def ", "text/plain"},
	{" js mjs cjs jsx ts tsx mts cts ", "text/javascript"},
	{" json map ipynb ", "application/json"},
	{" jsonl ndjson ", "application/json-seq"},
	{" md markdown ", "text/markdown"},
	{" html htm shtml ", "text/html"},
	{" css ", "text/css"},
	{" scss ", "text/x-scss"},
	{" sass ", "text/x-sass"},
	{" less ", "text/less"},
	{" csv ", "text/csv"},
	{" tsv ", "text/tab-separated-values"},
	{" yaml yml ", "text/yaml"},
	{" toml ", "application/toml"},
	{" xml xsl xsd rng ", "application/xml"},
	{" svg ", "image/svg+xml"},
	{" xhtml xht ", "application/xhtml+xml"},
	{" atom ", "application/atom+xml"},
	{" rss ", "application/rss+xml"},
	{" jsonld ", "application/ld+json"},
	{" geojson ", "application/geo+json"},
	{" webmanifest ", "application/manifest+json"},
	{" sh ", "application/x-sh"},
	{" sql ", "application/x-sql"},
	{" rtf ", "application/rtf"},
	{" php ", "application/x-httpd-php"},
	{" ics ", "text/calendar"},
	{" vcf ", "text/x-vcard"},
	{" vtt ", "text/vtt"},
	{" wasm ", "application/wasm"},
	{" pdf ", "application/pdf"},
	{" zip ", "application/zip"},
	{" gz tgz ", "application/gzip"},
	{" bz2 ", "application/x-bzip2"},
	{" xz ", "application/x-xz"},
	{" zst ", "application/zstd"},
	{" 7z ", "application/x-7z-compressed"},
	{" rar ", "application/vnd.rar"},
	{" tar ", "application/x-tar"},
	{" jar ", "application/java-archive"},
	{" deb ", "application/x-debian-package"},
	{" png ", "image/png"},
	{" jpg jpeg jpe ", "image/jpeg"},
	{" gif ", "image/gif"},
	{" webp ", "image/webp"},
	{" avif ", "image/avif"},
	{" bmp ", "image/bmp"},
	{" ico ", "image/vnd.microsoft.icon"},
	{" tif tiff ", "image/tiff"},
	{" heic ", "image/heic"},
	{" mp3 ", "audio/mpeg"},
	{" wav ", "audio/wav"},
	{" ogg oga ", "audio/ogg"},
	{" flac ", "audio/flac"},
	{" m4a ", "audio/mp4"},
	{" aac ", "audio/aac"},
	{" mp4 m4v ", "video/mp4"},
	{" webm ", "video/webm"},
	{" mov ", "video/quicktime"},
	{" avi ", "video/x-msvideo"},
	{" mkv ", "video/x-matroska"},
	{" mpeg mpg ", "video/mpeg"},
	{" woff ", "font/woff"},
	{" woff2 ", "font/woff2"},
	{" ttf ", "font/ttf"},
	{" otf ", "font/otf"},
	{" doc ", "application/msword"},
	{" xls ", "application/vnd.ms-excel"},
	{" ppt ", "application/vnd.ms-powerpoint"},
	{" docx ", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
	{" xlsx ", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
	{" pptx ", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
	{" odt ", "application/vnd.oasis.opendocument.text"},
	{" ods ", "application/vnd.oasis.opendocument.spreadsheet"},
	{" odp ", "application/vnd.oasis.opendocument.presentation"},
	{" epub ", "application/epub+zip"},
	{" sqlite sqlite3 db ", "application/vnd.sqlite3"},
	{" bin exe dll so o a ", "application/octet-stream"},
};

#define MAGIC(text) text, sizeof(text) - 1
static const struct {
	size_t at;
	const char *bytes;
	size_t len;
	const char *type;
} magics[] = {
	{0, MAGIC("\x7f" "ELF"), "application/x-executable"},
	{0, MAGIC("\x89PNG\r\n\x1a\n"), "image/png"},
	{0, MAGIC("\xff\xd8\xff"), "image/jpeg"},
	{0, MAGIC("GIF8"), "image/gif"},
	{8, MAGIC("WEBP"), "image/webp"},
	{0, MAGIC("%PDF-"), "application/pdf"},
	{0, MAGIC("PK\x03\x04"), "application/zip"},
	{0, MAGIC("\x1f\x8b"), "application/gzip"},
	{0, MAGIC("BZh"), "application/x-bzip2"},
	{0, MAGIC("\xfd" "7zXZ\0"), "application/x-xz"},
	{0, MAGIC("\x28\xb5\x2f\xfd"), "application/zstd"},
	{0, MAGIC("7z\xbc\xaf\x27\x1c"), "application/x-7z-compressed"},
	{257, MAGIC("ustar"), "application/x-tar"},
	{0, MAGIC("SQLite format 3\0"), "application/vnd.sqlite3"},
	{0, MAGIC("\0asm"), "application/wasm"},
	{0, MAGIC("OggS"), "audio/ogg"},
	{0, MAGIC("fLaC"), "audio/flac"},
	{0, MAGIC("ID3"), "audio/mpeg"},
	{4, MAGIC("ftyp"), "video/mp4"},
	{0, MAGIC("#!/bin/sh"), "text/x-shellscript"},
	{0, MAGIC("#!/bin/bash"), "text/x-shellscript"},
	{0, MAGIC("#!/usr/bin/env bash"), "text/x-shellscript"},
	{0, MAGIC("#!/usr/bin/env python"), "text/x-script.python"},
	{0, MAGIC("#!/usr/bin/python"), "text/x-script.python"},
	{0, MAGIC("<?xml"), "text/xml"},
	{0, MAGIC("<!DOCTYPE html"), "text/html"},
	{0, MAGIC("<!doctype html"), "text/html"},
	{0, MAGIC("<html"), "text/html"},
};

// Subtypes of application/ that are text.
static const char text_types[] =
	" json json-seq javascript x-javascript ecmascript typescript x-typescript xml xml-dtd "
	"xml-external-parsed-entity yaml x-yaml toml sql rtf x-sh x-shellscript x-httpd-php x-empty ";
// clang-format on

const char *mime_by_name(struct str path)
{
	char word[EXTENSION_MAX + 3];
	size_t dot = path.len, len;

	while (dot > 0 && path.at[dot - 1] != '.' && path.at[dot - 1] != '/')
		dot--;
	len = path.len - dot;
	// A leading dot starts a hidden file's name, not an extension.
	if (dot < 2 || path.at[dot - 1] != '.' || path.at[dot - 2] == '/' || !len ||
	    len > EXTENSION_MAX)
		return NULL;
	snprintf(word, sizeof(word), " %.*s ", (int)len, path.at + dot);
	for (char *at = word + 1; at[1]; at++) {
		if (*at == ' ')
			return NULL;
		*at = (char)tolower((unsigned char)*at);
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strstr(names[i].extensions, word))
			return names[i].type;
	return NULL;
}

const char *mime_by_bytes(struct str head, bool whole)
{
	struct str text = head;

	if (!head.len)
		return "inode/x-empty";
	for (size_t i = 0; i < sizeof(magics) / sizeof(*magics); i++)
		if (head.len >= magics[i].at + magics[i].len &&
		    !memcmp(head.at + magics[i].at, magics[i].bytes, magics[i].len))
			return magics[i].type;
	if (!whole)
		text.len = text_utf8_whole(text);
	return text_is_utf8(text) && !memchr(text.at, 0, text.len) ? "text/plain"
								   : "application/octet-stream";
}

bool mime_is_text(const char *type)
{
	static const char app[] = "application/";
	struct str whole = str_of(type);
	char word[64];

	if (!strncmp(type, "text/", 5) || str_ends(whole, "+json") || str_ends(whole, "+xml") ||
	    !strcmp(type, "inode/x-empty"))
		return true;
	if (strncmp(type, app, sizeof(app) - 1) != 0)
		return false;
	snprintf(word, sizeof(word), " %s ", type + sizeof(app) - 1);
	return strstr(text_types, word) != NULL;
}

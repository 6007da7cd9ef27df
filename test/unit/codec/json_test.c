#include "codec/json.h"

#include "base/clock.h"
#include "codec/json_scan.h"
#include "tap.h"

static bool is_bad(struct str text)
{
	struct json *root = (struct json *)&root;
	auto_err err = json_read(text, &root);

	if (!err)
		json_free(root);
	return err && err_kind(err) == ERR_INVALID && strcmp(err_reason(err), "bad_json") == 0 &&
	       root == (struct json *)&root;
}

TEST(reads, "values of each type are read")
{
	auto_json root = NULL;
	struct str text = STR("default");
	uint64_t number = 7;
	double real = 0;
	bool flag = false;

	CHECK_OK(json_read(STR(" {\"s\":\"a\\u00e4\\ud83d\\ude00\\n\",\"n\":9007199254740992,"
			       "\"d\":-1.5e2,\"b\":true,\"z\":null,\"a\":[1,[],{}]}\r\n"),
			   &root));
	CHECK(json_type(root) == JSON_OBJECT && json_count(root) == 6);
	CHECK_OK(json_str(json_get(root, "s"), "s", &text));
	CHECK(str_is(text, "a\xc3\xa4\xf0\x9f\x98\x80\n"));
	CHECK_OK(json_u64(json_get(root, "n"), "n", 0, UINT64_MAX, &number));
	CHECK(number == 9007199254740992);
	CHECK_OK(json_double(json_get(root, "d"), "d", -200, 0, &real));
	CHECK(real == -150.0);
	CHECK_OK(json_bool(json_get(root, "b"), "b", &flag));
	CHECK(flag && json_get(root, "z") == NULL && json_get(root, "absent") == NULL);
	CHECK(json_count(json_get(root, "a")) == 3);
	CHECK(json_type(json_at(json_get(root, "a"), 1)) == JSON_ARRAY);
	CHECK(json_at(json_get(root, "a"), 3) == NULL && json_at(root, 0) == NULL);
}

TEST(nul, "a NUL is part of a text, and of nothing that becomes a C string")
{
	auto_json root = NULL;
	struct str text = STR("default");

	CHECK_OK(json_read(STR("{\"s\":\"a\\u0000b\",\"n\":1}"), &root));
	CHECK(str_eq(json_chars(json_get(root, "s")), STR("a\0b")));
	CHECK_ERR(json_str(json_get(root, "s"), "s", &text), INVALID);
	CHECK(str_is(text, "default"));
	CHECK(json_chars(json_get(root, "n")).len == 0 && json_chars(NULL).len == 0);
}

TEST(scalars, "a document may be any value")
{
	static const char *const good[] = {"0",	   "-0",   "5",	 "1.5", "1e5", "\"\"", "true",
					   "null", " [] ", "{}", "-1",	"[1]", "1E+2", "0.0e-0"};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		auto_json root = NULL;

		CHECK_OK(json_read(str_of(good[i]), &root));
	}
}

TEST(strict, "text that a lenient parser accepts is refused")
{
	static const char *const bad[] = {
		"",
		" ",
		"{",
		"[",
		"}",
		"]",
		"{]",
		"[}",
		"[1,]",
		"{\"a\":1,}",
		"{,}",
		"[,]",
		"[1 2]",
		"{\"a\"}",
		"{\"a\":}",
		"{a:1}",
		"{'a':1}",
		"['a']",
		"{1:2}",
		"nul",
		"nulll",
		"True",
		"NaN",
		"Infinity",
		"-Infinity",
		"[NaN]",
		"tru",
		"1 2",
		"{} {}",
		"{}x",
		"[]]",
		"// c\n1",
		"/* c */1",
		"[1]//",
		"01",
		"-",
		"+1",
		"1.",
		".5",
		"1e",
		"1e+",
		"0x10",
		"--1",
		"-01",
		"9007199254740993",
		"-9007199254740993",
		"18446744073709551616",
		"1e400",
		"-1e400",
		"[1e309]",
		"{\"a\\u0000b\":1}",
		"{\"\\ud800\":1}",
		"{\"\\udc00\":1}",
		"{\"\\ud800\\u0041\":1}",
		"\"\\u12\"",
		"\"\\u12g4\"",
		"\"\\x41\"",
		"\"\\'\"",
		"\"",
		"\"a",
		"\"\\",
		"\"\n\"",
		"\"\t\"",
		"\"\x01\"",
		"\"\xff\"",
		"\"\xc3\"",
		"\"\xc3\xa4\xc0\x80\"",
		"\"\xed\xa0\x80\"",
		"\xef\xbb\xbf{}",
		"\xff",
		"{\"a\":1,\"a\":2}",
		"{\"a\":1,\"\\u0061\":2}",
		"[{\"x\":{\"b\":1,\"c\":2,\"b\":3}}]",
		"{\"a\":{\"b\":1},\"a\":{}}",
		"{\"a\":null,\"a\":null}",
		"\v1",
		"\f1",
		"1\xa0",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (!is_bad(str_of(bad[i])))
			printf("# accepted: %s\n", bad[i]);
		CHECK(is_bad(str_of(bad[i])));
	}
	CHECK(is_bad(STR("\"a\0b\"")) && is_bad(STR("{}\0")) && is_bad(STR("\0")));
	CHECK(is_bad((struct str){NULL, 0}));
}

TEST(depth, "32 levels are read, 33 are not, and a flood of brackets costs nothing")
{
	static char text[200001];
	auto_json root = NULL;
	int64_t start;

	memset(text, '[', 33);
	memset(text + 33, ']', 33);
	CHECK_OK(json_read((struct str){text + 1, 64}, &root));
	CHECK(is_bad((struct str){text, 66}));
	memset(text, '[', 100000);
	start = clock_ms();
	for (int i = 0; i < 1000; i++)
		CHECK(is_bad((struct str){text, 100000}));
	for (size_t i = 0; i + 5 <= 100000; i += 5)
		memcpy(text + i, "{\"a\":", 5);
	for (int i = 0; i < 1000; i++)
		CHECK(is_bad((struct str){text, 100000}));
	CHECK(clock_ms() - start < 2000);
}

TEST(many, "a tree of too many values is not built")
{
	auto_buf text = BUF_INIT(1 << 20);
	auto_json most = NULL;
	auto_json root = NULL;
	auto_err err = NULL;

	buf_char(&text, '[');
	for (int i = 2; i < JSON_VALUES_MAX; i++)
		buf_text(&text, "[],");
	buf_text(&text, "0]");
	CHECK_OK(json_read(buf_view(&text), &most));
	text.at[text.len - 1] = ',';
	buf_text(&text, "0]");
	err = json_read(buf_view(&text), &root);
	CHECK(err && !strcmp(err_reason(err), "bad_json"));
	CHECK_OK(json_read_any(buf_view(&text), &root));
}

TEST(where, "the message says where the text went wrong")
{
	struct json *root;
	auto_err err = json_read(STR("{\"a\": nope}"), &root);

	CHECK_STR(err_message(err), "the text is not valid JSON: not a JSON value (at byte 6)");
}

TEST(typed, "a field of another type or out of range is named, and the default stands")
{
	auto_json root = NULL;
	struct str text = STR("default");
	uint64_t number = 7;
	double real = 7;
	bool flag = true;
	auto_err err = NULL;

	CHECK_OK(json_read(STR("{\"s\":\"x\",\"n\":5,\"d\":1.5,\"m\":-1,\"w\":3.0}"), &root));
	CHECK_ERR(json_str(json_get(root, "n"), "n", &text), INVALID);
	CHECK_ERR(json_u64(json_get(root, "s"), "s", 0, 9, &number), INVALID);
	CHECK_ERR(json_u64(json_get(root, "d"), "d", 0, 9, &number), INVALID);
	CHECK_ERR(json_u64(json_get(root, "m"), "m", 0, 9, &number), INVALID);
	CHECK_ERR(json_u64(json_get(root, "n"), "n", 6, 9, &number), INVALID);
	CHECK_ERR(json_double(json_get(root, "d"), "d", 2, 3, &real), INVALID);
	CHECK_ERR(json_bool(json_get(root, "n"), "n", &flag), INVALID);
	CHECK(str_is(text, "default") && number == 7 && real == 7 && flag);
	CHECK_OK(json_u64(json_get(root, "none"), "none", 0, 9, &number));
	CHECK(number == 7);
	CHECK_OK(json_u64(json_get(root, "w"), "w", 0, 9, &number));
	CHECK(number == 3);
	CHECK_OK(json_want(NULL, "x", JSON_OBJECT));
	err = json_want(json_get(root, "s"), "limits", JSON_OBJECT);
	CHECK_STR(err_message(err), "'limits' must be an object");
	CHECK_STR(err_reason(err), "bad_field");
}

TEST(only, "an unknown member is refused with a hint that lists the known ones")
{
	static const char *const known[] = {"name", "env", NULL};
	auto_json root = NULL;
	auto_json array = NULL;
	auto_err err = NULL;

	CHECK_OK(json_read(STR("{\"name\":1,\"nmae\":2}"), &root));
	CHECK_OK(json_read(STR("[]"), &array));
	err = json_only(root, known);
	CHECK_STR(err_reason(err), "unknown_field");
	CHECK_STR(err_hint_of(err), "known fields: name, env");
	CHECK_ERR(json_only(array, known), INVALID);
	CHECK_OK(json_only(NULL, known));
}

TEST(steps, "members are stepped through in their order")
{
	auto_json root = NULL;
	struct json *value;
	struct str key;
	size_t at = 0, n = 0;

	CHECK_OK(json_read(STR("{\"a\":1,\"b\":null,\"c\":3}"), &root));
	for (; json_next(root, &at, &key, &value); n++) {
		CHECK(key.at[0] == (char)('a' + n) && key.len == 1);
		CHECK((value == NULL) == (n == 1));
	}
	CHECK(n == 3);
	at = 0;
	CHECK(!json_next(NULL, &at, &key, &value));
}

TEST(writes, "the writer puts commas and escapes where they belong")
{
	auto_buf buf = BUF_INIT(1000);
	struct json_out out = json_to(&buf);

	json_begin(&out, '{');
	json_put_str(&out, "s", STR("a\"\\\n\x01\x7f\0\xc3\xa4"));
	json_put_text(&out, "none", NULL);
	json_put_int(&out, "n", INT64_MIN);
	json_put_bool(&out, "b", false);
	json_key(&out, "list");
	json_begin(&out, '[');
	json_add_double(&out, 0.1);
	json_add_double(&out, 1.0 / 0.0);
	json_begin(&out, '{');
	json_end(&out, '}');
	json_add_raw(&out, STR("[1]"));
	json_end(&out, ']');
	json_put_bool(&out, "t", true);
	json_end(&out, '}');
	CHECK_STR(buf.at, "{\"s\":\"a\\\"\\\\\\n\\u0001\\u007f\\u0000\xc3\xa4\",\"none\":null,"
			  "\"n\":-9223372036854775808,\"b\":false,"
			  "\"list\":[0.1,null,{},[1]],\"t\":true}");
}

TEST(pieces, "a string in pieces reads the same however it is cut")
{
	static const char text[] = "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\xff\xe2\x82z\xf0\x9f\"";
	static const char want[] = "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\xef\xbf\xbd"
				   "\xef\xbf\xbdz\xef\xbf\xbd\\\"\xef\xbf\xbd";
	auto_buf buf = BUF_INIT(1000);

	for (size_t step = 1; step < sizeof(text); step++) {
		struct json_carry carry = {0};
		struct str rest = str_of(text);

		buf_clear(&buf);
		while (rest.len > 0) {
			size_t len = rest.len < step ? rest.len : step;

			json_piece(&buf, rest.at, len, &carry);
			rest = str_skip(rest, len);
		}
		json_piece(&buf, "\xe2\x82", 2, &carry);
		json_piece(&buf, NULL, 0, &carry);
		CHECK_STR(buf.at, want);
	}
}

TEST(broken_pieces, "the byte that breaks a cut sequence may begin the next one")
{
	struct json_carry carry = {0};
	auto_buf buf = BUF_INIT(100);

	json_piece(&buf, "\xf0\x9f", 2, &carry);
	json_piece(&buf, "\xc3", 1, &carry);
	json_piece(&buf, "\xa4", 1, &carry);
	json_piece(&buf, NULL, 0, &carry);
	CHECK_STR(buf.at, "\xef\xbf\xbd\xc3\xa4");
}

TEST(full, "a writer that runs full shows it in the buf")
{
	auto_buf buf = BUF_INIT(10);
	struct json_out out = json_to(&buf);

	json_add_str(&out, STR("more than ten bytes, surely"));
	CHECK(!buf_ok(&buf));
}

TEST(within, "a text that becomes no tree may be deeper, with integers of any size")
{
	struct json_scan scan;
	char deep[300] = "";

	memset(deep, '[', 128);
	memset(deep + 128, ']', 128);
	CHECK(!json_scan(str_of(deep), &scan) && json_scan_within(str_of(deep), 128, &scan));
	CHECK(!json_scan_within(str_of(deep), 127, &scan));
	CHECK(json_scan_within(STR("123456789012345678901234567890"), 1, &scan));
	CHECK(!json_scan(STR("123456789012345678901234567890"), &scan));
	CHECK(!json_scan_within(STR("{\"a\":01}"), 8, &scan));
	CHECK(json_scan_within(STR("{\"a\":{\"b\":[]}}"), 3, &scan) && scan.members == 2);
}

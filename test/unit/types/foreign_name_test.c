#include "types/foreign_name.h"

#include <stdlib.h>
#include <string.h>

#include "tap.h"

TEST(known, "what is no name of cove has a form of its own")
{
	static const char *const rows[][2] = {
		{"plain-1", "plain-1"},
		{"My Box", "dn---4dy-20-42ox"},
		{"my_box", "dn--my-5fbox"},
		{"a-B", "dn--a---42"},
		{"org/image:1.0", "dn--org-2fimage-3a1-2e0"},
		{"dn--x", "dn--dn----x"},
		{"box-1", "dn--box--1"},
		{"0123456789ab", "dn--0123456789ab"},
		{"\xc3\xa9", "dn---c3-a9"},
	};
	char form[FOREIGN_NAME_MAX + 2], text[FOREIGN_NAME_MAX + 2];

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		CHECK(foreign_name_write(str_of(rows[i][0]), id_is_name, form));
		CHECK_STR(form, rows[i][1]);
		CHECK(id_is_name(str_of(form)));
		foreign_name_read(form, id_is_name, text);
		CHECK_STR(text, rows[i][0]);
	}
	CHECK(foreign_name_write(STR("my_box.1"), id_is_template, form));
	CHECK_STR(form, "my_box.1");
}

TEST(refused, "no text, control characters, ids and long texts are refused")
{
	char form[FOREIGN_NAME_MAX + 2], id[ID_BOX_LEN + 1];
	char text[64];

	id_box(id);
	memset(text, 'A', sizeof(text));
	CHECK(!foreign_name_write(STR(""), id_is_name, form));
	CHECK(!foreign_name_write(STR("a\nb"), id_is_name, form));
	CHECK(!foreign_name_write(STR("a\x7f"), id_is_name, form));
	CHECK(!foreign_name_write((struct str){"a\0b", 3}, id_is_name, form));
	CHECK(!foreign_name_write(str_of(id), id_is_name, form));
	CHECK(foreign_name_write((struct str){text, 19}, id_is_name, form));
	CHECK(!foreign_name_write((struct str){text, 20}, id_is_name, form));
}

TEST(no_form, "a name that is no form of a text is shown as it is")
{
	static const char *const names[] = {"dn--",	  "dn--a-4", "dn--a-4G", "dn--plain",
					    "dn---41-",	  "dn---4A", "dn---0a",	 "dn---00",
					    "dn---61-42", "x"};
	char text[FOREIGN_NAME_MAX + 2];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		foreign_name_read(names[i], id_is_name, text);
		CHECK_STR(text, names[i]);
	}
}

TEST(both_ways, "each text has one form, and leads back")
{
	char form[FOREIGN_NAME_MAX + 2], again[FOREIGN_NAME_MAX + 2], text[20];

	srand(21);
	for (int n = 0; n < 20000; n++) {
		size_t len = 1 + (size_t)rand() % 18;

		for (size_t i = 0; i < len; i++)
			text[i] = (char)(rand() % 3 ? "abz09-dn"[rand() % 8] : 32 + rand() % 95);
		text[len] = '\0';
		CHECK(foreign_name_write(str_of(text), id_is_name, form));
		CHECK(id_is_name(str_of(form)));
		foreign_name_read(form, id_is_name, again);
		CHECK_STR(again, text);
	}
}

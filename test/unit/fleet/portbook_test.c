#include "fleet/portbook.h"

#include "tap.h"

TEST(order, "ports are kept by number, each once, with its name")
{
	struct portbook book = {0};

	CHECK(portbook_add(&book, 8080, STR("web")));
	CHECK(portbook_add(&book, 80, STR("")));
	CHECK(portbook_add(&book, 65535, STR("last")));
	CHECK(book.count == 3 && book.at[0].port == 80 && book.at[2].port == 65535);
	CHECK_STR(portbook_find(&book, 8080)->name, "web");
	CHECK(!portbook_find(&book, 80)->name && !portbook_find(&book, 81));
	CHECK(portbook_drop(&book, 8080) && !portbook_drop(&book, 8080));
	CHECK(book.count == 2 && !portbook_find(&book, 8080));
	portbook_done(&book);
}

TEST(full, "a full book takes no more")
{
	struct portbook book = {0};

	for (int i = 1; i <= PORTBOOK_MAX; i++)
		CHECK(portbook_add(&book, (uint16_t)i, STR("")));
	CHECK(!portbook_add(&book, 9999, STR("")));
	CHECK(portbook_drop(&book, 1) && portbook_add(&book, 9999, STR("")));
	portbook_done(&book);
}

TEST(tokens, "each port has a token of its own from the start, and one is found again")
{
	struct portbook book = {0};
	char first[TICKET_TOKEN_MAX + 1];

	snprintf(first, sizeof(first), "%s", portbook_add(&book, 80, STR(""))->token);
	CHECK(ticket_is_token(str_of(first)));
	CHECK(strcmp(portbook_add(&book, 81, STR(""))->token, first) != 0);
	CHECK(portbook_has_token(&book, str_of(first), 81));
	CHECK(!portbook_has_token(&book, str_of(first), 80));
	CHECK(portbook_get(&book, 81) && !portbook_get(&book, 82));
	portbook_done(&book);
}

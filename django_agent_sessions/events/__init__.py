"""What happens in a session, told while it happens: to streams that wait, without a connection.

``states`` reads how far sessions are, ``hub`` does that for all who wait at once, ``listening``
hears of it earlier on PostgreSQL, ``cursor`` is how far one stream has told, and ``reading`` finds
what comes next.
"""

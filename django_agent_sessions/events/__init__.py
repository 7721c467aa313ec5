"""Stream session changes to clients without holding a database connection.

``states`` reads how far sessions are, ``hub`` polls them for all streams of a process,
``listening`` receives PostgreSQL notifications, ``cursor`` is the position of a stream, and
``reading`` reads the events after a cursor.
"""
